"""What a repository costs by what it has ever seen: lives of publishers, topics, named subscribers, hours."""
