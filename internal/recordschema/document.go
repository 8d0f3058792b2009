package recordschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// definition is a schema of the document, with what this package looks at.
type definition struct {
	raw         json.RawMessage
	Description string   `json:"description"`
	CETypes     []string `json:"x-ce-types"`
	Entity      string   `json:"x-entity"`
	Key         string   `json:"x-key"`
}

// record says whether the schema is that of a record or an entity, and not of a part of one.
func (d *definition) record() bool { return len(d.CETypes) > 0 || d.Entity != "" || d.Key != "" }

// published holds the schemas of events.RecordSchema.
type published map[string]definition

func read() published {
	var doc struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(events.RecordSchema(), &doc); err != nil {
		panic("recordschema: " + err.Error()) // it is part of the program
	}
	all := published{}
	for name, raw := range doc.Defs {
		d := definition{raw: raw}
		if err := json.Unmarshal(raw, &d); err != nil {
			panic("recordschema: " + name + ": " + err.Error())
		}
		all[name] = d
	}
	return all
}

// All returns the schemas of all records and entities in one document.
func All() []byte { return events.RecordSchema() }

// Names returns the names of the schemas of records and entities, sorted.
func Names() (names []string) {
	for name, d := range read() {
		if d.record() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// One returns a schema with that name which needs no other document; false if no record or entity has the name.
func One(name string) ([]byte, bool) {
	all := read()
	d, ok := all[name]
	if !ok || !d.record() {
		return nil, false
	}
	needed := map[string]json.RawMessage{}
	all.collect(d.raw, needed)
	text := fmt.Appendf(nil, `{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://sagalog.dev/schema/%s.schema.json","title":%q,`, name, name)
	text = append(text, bytes.TrimSuffix(bytes.TrimPrefix(d.raw, []byte("{")), []byte("}"))...)
	if len(needed) > 0 {
		text = append(text, `,"$defs":{`...)
		for _, name := range slices.Sorted(maps.Keys(needed)) {
			text = append(fmt.Appendf(text, "%q:%s", name, needed[name]), ',')
		}
		text[len(text)-1] = '}'
	}
	return indented(append(text, '}')), true
}

var reference = regexp.MustCompile(`"\$ref": ?"#/\$defs/(\w+)"`)

// collect adds the schemas to which a schema refers.
func (all published) collect(raw json.RawMessage, to map[string]json.RawMessage) {
	for _, m := range reference.FindAllSubmatch(raw, -1) {
		if name := string(m[1]); to[name] == nil {
			to[name] = all[name].raw
			all.collect(all[name].raw, to)
		}
	}
}

func indented(text []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", " "); err != nil {
		panic("recordschema: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// summary returns the first sentence of a description.
func summary(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}
