// Package e2e proves the engine from outside: real processes, real sockets, kill -9.
package e2e
