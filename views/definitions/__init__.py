"""From a SELECT, or dimensions and metrics, to what a view stores."""
