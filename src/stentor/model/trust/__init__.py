"""Who may do what: access facts and charters of topics, and what proves the place and name of a node or client."""
