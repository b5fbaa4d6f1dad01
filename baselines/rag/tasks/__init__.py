"""What is measured of a retriever: ranking, answers, speed; and training of one."""
