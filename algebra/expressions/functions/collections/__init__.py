"""Functions of arrays and structs."""
