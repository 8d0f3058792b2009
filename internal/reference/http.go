package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// openAPI is what the page shows of an OpenAPI document.
type openAPI struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Summary, Description string
	Parameters           []parameter
	RequestBody          struct {
		Description string
		Content     map[string]content
	} `json:"requestBody"`
	Responses map[string]struct {
		Description string
		Content     map[string]content
	}
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                *schema
}

type content struct{ Schema *schema }

// methods is the order of the calls of a path.
var methods = []string{"get", "put", "post", "patch", "delete"}

// HTTP returns the page of the calls of an OpenAPI document (JSON).
func HTTP(document []byte) ([]byte, error) {
	var doc openAPI
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	p := begin("HTTP API", "Every call. A running engine serves the same as OpenAPI 3.1 at `/openapi.yaml`, with examples; `sagalog dev` listens at `http://127.0.0.1:8642`.\n"+
		"[Ways in and out](../api.md) explains the important ones. A failed call answers a problem document (RFC 9457). [Access](../access.md) says who may call what.")
	type call struct {
		title string
		of    operation
	}
	var calls []call
	var rows [][]string
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, m := range methods {
			if o, ok := doc.Paths[path][m]; ok {
				title := strings.ToUpper(m) + " " + path
				calls = append(calls, call{title, o})
				rows = append(rows, []string{code(title), sentence(o.Summary)})
			}
		}
	}
	p.table([]string{"call", "what it does"}, rows)
	for _, c := range calls {
		p.call(c.title, c.of)
	}
	p.head(2, "Documents")
	p.text("The members of what is sent and answered.")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		p.head(3, name)
		p.text(s.Description)
		p.members(s, doc.Components.Schemas)
	}
	return p.bytes(), nil
}

func (p *page) call(title string, o operation) {
	p.head(2, title)
	p.text(sentence(o.Summary))
	p.text(sentence(o.Description))
	var rows [][]string
	for _, x := range o.Parameters {
		needed := ""
		if x.Required {
			needed = "required. "
		}
		rows = append(rows, []string{code(x.Name), x.In, x.Schema.kind(), needed + sentence(x.Description)})
	}
	p.table([]string{"parameter", "in", "type", ""}, rows)
	if len(o.RequestBody.Content) > 0 {
		p.text("Body: " + sentence(contents(o.RequestBody.Content)) + " " + sentence(o.RequestBody.Description))
	}
	rows = nil
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		rows = append(rows, []string{status, sentence(r.Description), contents(r.Content)})
	}
	p.table([]string{"status", "", "body"}, rows)
}

// contents says which types a body has, and which document is in it.
func contents(all map[string]content) string {
	var texts []string
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		text := code(kind)
		if s := all[kind].Schema; s != nil && s.kind() != "" {
			text += ": " + s.kind()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
