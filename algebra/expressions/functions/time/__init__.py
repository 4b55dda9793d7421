"""Functions of dates and timestamps: fields, texts, floors, construction and the calendar."""
