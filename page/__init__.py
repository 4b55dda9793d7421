"""The page: tables looked at in a browser, as HTML made here and as the same facts in JSON.

Each view has a module that returns a record; `application` prints it by a template of the folder
`templates`, or as JSON. `security` lets in who has the token; `serving` starts the process.
"""
