package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// definition is what the tables say of an adopted definition, by step.
type definition map[string]definedStep

type definedStep struct {
	// needs are the steps that it needs, sorted; not nil.
	needs []string
	// policy and undo are the hashes of what holds for attempts to do and to undo it; undo is "" if nothing undoes it.
	policy, undo string
}

// The members of a step and of its undo that decide about attempts: how often, how long and what follows.
var (
	policyMembers = []string{"complete_within", "cool_down", "heartbeat", "on_timeout", "retry", "start_within"}
	undoMembers   = []string{"complete_within", "retry"}
)

// readDefinition reads the body of an adopted definition.
func readDefinition(body []byte) (definition, error) {
	var b struct {
		Steps []map[string]json.RawMessage `json:"steps"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("read an adopted definition: %w", err)
	}
	d := make(definition, len(b.Steps))
	for _, members := range b.Steps {
		id, s := "", definedStep{needs: []string{}}
		var undo map[string]json.RawMessage
		for name, to := range map[string]any{"id": &id, "needs": &s.needs, "undo": &undo} {
			if raw, ok := members[name]; ok {
				if err := json.Unmarshal(raw, to); err != nil {
					return nil, fmt.Errorf("read %s of a step of an adopted definition: %w", name, err)
				}
			}
		}
		var err error
		if s.policy, err = policyHash(members, policyMembers); err != nil {
			return nil, err
		}
		if undo != nil {
			if s.undo, err = policyHash(undo, undoMembers); err != nil {
				return nil, err
			}
		}
		d[id] = s
	}
	return d, nil
}

// policyHash returns the first 16 hexadecimal digits of the SHA-256 of the members as JSON without spaces, the names sorted. Absent members are left out.
func policyHash(all map[string]json.RawMessage, members []string) (string, error) {
	chosen := map[string]any{}
	for _, name := range members {
		raw, ok := all[name]
		if !ok {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // numbers stay as they are written
		var v any
		if err := d.Decode(&v); err != nil {
			return "", fmt.Errorf("read %s of a policy: %w", name, err)
		}
		chosen[name] = v
	}
	text, err := json.Marshal(chosen)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// definitions are those that a partition has adopted, by workflow and version.
type definitions struct {
	all map[adopted]definition
	// pieces is the beginning of a definition that is carried in pieces.
	pieces []byte
}

type adopted struct {
	workflow string
	version  int32
}

// note takes a fact that adopts or carries a definition.
func (d *definitions) note(r *events.Record, f *Fact) error {
	switch events.Name(f.Type) {
	case events.NameDefinitionAdopted:
		return d.add(r.Value)
	case events.NameEntityCarried:
		if f.Task != "" {
			return nil
		}
		var b events.EntityCarried
		if err := json.Unmarshal(r.Value, &b); err != nil || b.Kind != events.KindDefinition {
			return err
		}
		if b.Piece == "" {
			return d.add(b.Encoding)
		}
		d.pieces = append(d.pieces, b.Piece...)
		if b.More {
			return nil
		}
		whole := d.pieces
		d.pieces = nil
		return d.add(whole)
	}
	return nil
}

// add reads a definition with its name: the body of DefinitionAdopted and that of a carried one have the same members.
func (d *definitions) add(text []byte) error {
	var b events.Definition
	if err := json.Unmarshal(text, &b); err != nil {
		return fmt.Errorf("read an adopted definition: %w", err)
	}
	if len(b.Body) == 0 {
		return nil
	}
	of, err := readDefinition(b.Body)
	d.all[adopted{b.Workflow, int32(b.Version)}] = of
	return err
}

// policy returns the hash of the policy of an attempt; "" if the log no longer has the definition.
func (d *definitions) policy(of adopted, step string, operation events.Operation) string {
	s := d.all[of][step]
	if operation == events.Undo {
		return s.undo
	}
	return s.policy
}
