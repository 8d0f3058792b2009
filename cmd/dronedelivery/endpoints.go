package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeEndpoints puts DIR/endpoints.json in place by a rename, so that a program that waits for it never reads half a
// file.
func writeEndpoints(dir string, content []byte) (err error) {
	tmp, err := os.CreateTemp(dir, "endpoints-*.tmp")
	if err != nil {
		return fmt.Errorf("write endpoints: %w", err)
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, "endpoints.json"))
	}
	if err != nil {
		return fmt.Errorf("write endpoints: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}
