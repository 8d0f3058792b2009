package scheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Levels holds the level that each key of a definition needs (docs/protocol.md, "Versions of nodes"), by its path in the source,
// with * for any name: steps.*.undo. A key that is not listed needs events.FirstLevel.
type Levels map[string]int

// keyLevels lists each key that a build added to the language after the first level.
var keyLevels = Levels{}

// KeyLevels returns the levels of this build's keys.
func KeyLevels() Levels { return maps.Clone(keyLevels) }

// Of returns the level that a definition needs, and the path of a key that needs it, "" for events.FirstLevel. body is Source.Body.
func (l Levels) Of(body []byte) (level int, key string) {
	level = events.FirstLevel
	var all any
	if len(l) == 0 || json.Unmarshal(body, &all) != nil {
		return level, ""
	}
	for _, path := range slices.Sorted(maps.Keys(l)) {
		if l[path] <= level {
			continue
		}
		if found, ok := pathIn(all, strings.Split(path, ".")); ok {
			level, key = l[path], found
		}
	}
	return level, key
}

// pathIn returns the first path in a JSON value that has the given keys.
func pathIn(v any, keys []string) (path string, ok bool) {
	if len(keys) == 0 {
		return "", true
	}
	members, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if keys[0] != "*" && keys[0] != name {
			continue
		}
		if below, ok := pathIn(members[name], keys[1:]); ok {
			return strings.TrimSuffix(name+"."+below, "."), true
		}
	}
	return "", false
}
