//go:build !unix

package main

func keepPrivate() {}
