package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// endpoints is DIR/endpoints.json, for programs that start the engine with port 0.
type endpoints struct {
	// HTTP is the URL of the API, or empty if none is served.
	HTTP string `json:"http"`
	// Kafka is host:port of the brokers, separated by commas.
	Kafka string `json:"kafka"`
	// Node is the name of this node; the single node of dev has none.
	Node string `json:"node,omitempty"`
	// Services are the services of the example.
	Services map[string]string `json:"services,omitzero"`
}

const endpointsFile = "endpoints.json"

// write replaces the file as a whole: a reader sees either the old or the new one.
func (e endpoints) write(dir string) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, endpointsFile)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
