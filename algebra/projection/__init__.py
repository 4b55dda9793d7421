"""A projection's definition: its three forms, the checked one, and the names of what it stores."""
