"""Definitions of projections: the forms of a declaration, the bound form, and stored names."""
