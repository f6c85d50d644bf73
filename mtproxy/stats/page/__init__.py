"""The statistics page as HTML."""
