"""Sources that plans choose: tables of open segments."""
