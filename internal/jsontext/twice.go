package jsontext

import (
	"bytes"
	"encoding/json"
)

// Twice finds a name that an object has twice, at any depth, and returns the place of the second one. It returns false if no object has one, and
// if raw is not JSON or is nested too deeply.
func Twice(raw []byte) (at int, name string, found bool) {
	t := twice{scanner: scanner{b: raw}, at: unsure}
	t.value(t.space(0), MaxDepth)
	return t.at, t.name, t.at >= 0
}

type twice struct {
	scanner
	// at is the place of the second name, negative until there is one.
	at   int
	name string
}

// value returns the place after the value at i, negative when the search is over.
func (t *twice) value(i, levels int) int {
	switch {
	case i < 0 || i >= len(t.b) || levels == 0:
		return unsure
	case t.b[i] == '{':
		return t.object(i+1, levels-1)
	case t.b[i] != '[':
		return t.scanner.value(i, levels)
	}
	if i = t.space(i + 1); i < len(t.b) && t.b[i] == ']' {
		return i + 1
	}
	for {
		if i = t.value(i, levels-1); i < 0 {
			return unsure
		}
		if i = t.space(i); i >= len(t.b) || t.b[i] == ']' {
			return i + 1
		}
		i = t.space(i + 1)
	}
}

// fewNames are compared one by one; more are looked up.
const fewNames = 16

func (t *twice) object(i, levels int) int {
	if i = t.space(i); i < len(t.b) && t.b[i] == '}' {
		return i + 1
	}
	var room [fewNames][]byte
	few := room[:0]
	var many map[string]struct{}
	for {
		begin := i
		if i = t.scanner.name(i); i < 0 {
			return unsure
		}
		name := t.nameAt(begin)
		repeated := false
		if len(few) < fewNames {
			for _, other := range few {
				repeated = repeated || bytes.Equal(other, name)
			}
			few = append(few, name)
		} else {
			if many == nil {
				many = make(map[string]struct{}, 4*fewNames)
				for _, other := range few {
					many[string(other)] = struct{}{}
				}
			}
			_, repeated = many[string(name)]
			many[string(name)] = struct{}{}
		}
		if repeated {
			t.at, t.name = begin, string(name)
			return unsure
		}
		if i = t.value(i, levels); i < 0 {
			return unsure
		}
		if i = t.space(i); i >= len(t.b) || t.b[i] == '}' {
			return i + 1
		}
		i = t.space(i + 1)
	}
}

// nameAt returns the name whose text begins at i, without escapes.
func (t *twice) nameAt(i int) []byte {
	end := t.text(i)
	name := t.b[i+1 : end-1]
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	var plain string
	if json.Unmarshal(t.b[i:end], &plain) != nil {
		return name
	}
	return []byte(plain)
}
