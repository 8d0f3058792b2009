package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/spf13/pflag"
)

// callbacks holds the flags about callbacks: how services report the outcome of calls that they only accepted. Nodes with the role api check
// the tickets that processes with the role agent sign, so all of them have the same key.
type callbacks struct{ key, keyFile, url string }

func (c *callbacks) flags(f *pflag.FlagSet) {
	f.StringVar(&c.key, "callback-key", "", "the secret that signs callbacks; everyone on the machine can see flags in ps, so use the variable or --callback-key-file")
	f.StringVar(&c.keyFile, "callback-key-file", "", "file with the secret by which agents sign the callbacks of services that answer only \"accepted\", and by which nodes with the role api check them: the same on all of them, "+
		"such as what openssl rand -hex 32 prints; during a change, the new secret on the first line and the old one on the second")
	f.StringVar(&c.url, "callback-url", "", "URL of the HTTP API as services reach it, for their callbacks (default the address of --advertise or --http, if this process has the role api)")
}

func (c *callbacks) validate() error {
	if c.key != "" && c.keyFile != "" {
		return usage("--callback-key and --callback-key-file are both given: leave one out")
	}
	if c.url != "" {
		if c.key == "" && c.keyFile == "" {
			return usage("--callback-url needs --callback-key-file, the key that signs callbacks")
		}
		if err := httpagent.CheckCallbackURL(c.url); err != nil {
			return usage("--callback-url: %v", err)
		}
	}
	return nil
}

// secret returns the text of the key, and checks it; "" without one.
func (c *callbacks) secret() (string, error) {
	text, from := c.key, "--callback-key"
	if c.keyFile != "" {
		from = "--callback-key-file"
		b, err := os.ReadFile(c.keyFile)
		if err != nil {
			return "", fmt.Errorf("%s: %w", from, err)
		}
		text = string(b)
	} else if text == "" {
		return "", nil
	}
	if _, err := callback.NewKeys(text); err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	return text, nil
}

// callbackFile is the file of a data directory of `sagalog dev` that holds the key of its callbacks.
const callbackFile = "callback.key"

// callbackKeyIn returns the key of a data directory, and makes one if it has none.
func callbackKeyIn(dir string) (string, error) {
	name := filepath.Join(dir, callbackFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		random := make([]byte, callback.LeastSecret)
		_, _ = rand.Read(random) // it never fails
		b = []byte(hex.EncodeToString(random) + "\n")
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("the key of callbacks: %w", err)
	}
	if _, err := callback.NewKeys(string(b)); err != nil {
		return "", fmt.Errorf("%s: %w; if you delete the file, a new one is made, and callbacks under way are refused", name, err)
	}
	return string(b), nil
}

// reports is the place where the services of a process report what they accepted. The address of the API is known only after it listens, and
// agents begin later.
type reports struct{ at httpagent.Callback }

func (r *reports) callback(w *events.Work, again bool) (string, error) { return r.at(w, again) }

// to sets the address.
func (r *reports) to(url, secret string) (err error) {
	r.at, err = httpagent.NewCallback(httpagent.CallbackConfig{URL: strings.TrimSpace(url), Key: secret})
	return err
}
