package main

import "context"

func (o options) scaled(ctx context.Context, chosen []backend) error { return nil }
