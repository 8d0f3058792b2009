package scheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/rawjson"
)

const (
	// maxQuickDepth is how deep schemas nest that are looked into, with what they refer to written out. One that refers to
	// itself has no end and is left to the library.
	maxQuickDepth = 32
	// maxQuickSchemas bounds what writing out can grow to.
	maxQuickSchemas = 500
	// maxQuickMembers is the number of bits of quickSchema.required.
	maxQuickMembers = 64

	draft2020 = "https://json-schema.org/draft/2020-12/schema"
)

// quickOf returns the quick form of a schema that the library compiled, and nil if it says anything but what the quick
// form knows: one keyword that is overlooked would make it accept what is not valid.
func quickOf(schema any) *quickSchema {
	c := quickCompiler{}
	c.root, _ = schema.(map[string]any)
	q := c.compile(schema, 0)
	if c.failed {
		return nil
	}
	return q
}

type quickCompiler struct {
	root   map[string]any
	count  int
	failed bool
}

// fail says that the schema has no quick form.
func (c *quickCompiler) fail() *quickSchema {
	c.failed = true
	return nil
}

// compile returns nil for a schema that allows everything, and where it fails.
func (c *quickCompiler) compile(schema any, depth int) *quickSchema {
	c.count++
	if depth > maxQuickDepth || c.count > maxQuickSchemas || c.failed {
		return c.fail()
	}
	if yes, ok := schema.(bool); ok && yes && depth > 0 {
		return nil
	}
	obj, ok := schema.(map[string]any)
	if !ok {
		return c.fail()
	}
	q := &quickSchema{weight: visitWeight(obj), elements: limits{most: -1}, length: limits{most: -1}}
	for _, key := range slices.Sorted(maps.Keys(obj)) { // properties come before required
		c.keyword(q, key, obj[key], depth)
	}
	return q
}

func (c *quickCompiler) keyword(q *quickSchema, key string, v any, depth int) {
	switch key {
	case "title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly":
	case "$defs":
		_, ok := v.(map[string]any)
		c.need(ok)
	case "$schema":
		c.need(depth == 0 && v == any(draft2020))
	case "$ref":
		q.all = append(q.all, c.reference(v, depth))
	case "allOf":
		for _, s := range c.array(v) {
			if other := c.compile(s, depth+1); other != nil {
				q.all = append(q.all, other)
			}
		}
	case "type":
		q.types = c.types(v)
	case "enum":
		q.listed, q.texts = true, texts(c.array(v))
	case "properties":
		c.properties(q, v, depth)
	case "required":
		c.required(q, v)
	case "additionalProperties":
		if v == any(false) {
			q.closed = true
		} else {
			q.others = c.compile(v, depth+1)
		}
	case "items":
		q.items = c.compile(v, depth+1)
	case "minItems":
		q.elements.least = c.size(v)
	case "maxItems":
		q.elements.most = c.size(v)
	case "minLength":
		q.length.least = c.size(v)
	case "maxLength":
		q.length.most = c.size(v)
	case "minimum":
		q.minimum = c.bound(v)
	case "maximum":
		q.maximum = c.bound(v)
	case "exclusiveMinimum":
		q.aboveMin = c.bound(v)
	case "exclusiveMaximum":
		q.belowMax = c.bound(v)
	default:
		c.failed = true
	}
}

func (c *quickCompiler) need(ok bool) { c.failed = c.failed || !ok }

func (c *quickCompiler) array(v any) []any {
	list, ok := v.([]any)
	c.need(ok)
	return list
}

// reference follows a $ref to one of the root's own $defs by its plain name.
func (c *quickCompiler) reference(v any, depth int) *quickSchema {
	ref, _ := v.(string)
	name, ok := strings.CutPrefix(ref, "#/$defs/")
	defs, _ := c.root["$defs"].(map[string]any)
	target, known := defs[name]
	if !ok || !known || strings.ContainsAny(name, "/~%#") {
		return c.fail()
	}
	q := c.compile(target, depth+1)
	if q == nil {
		return &quickSchema{elements: limits{most: -1}, length: limits{most: -1}} // everything
	}
	return q
}

var typeNames = map[string]typeSet{
	"null": typeNull, "boolean": typeBoolean, "object": typeObject, "array": typeArray, "string": typeString, "number": typeNumber, "integer": typeInteger,
}

func (c *quickCompiler) types(v any) (set typeSet) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, t := range list {
		name, _ := t.(string)
		one, known := typeNames[name]
		c.need(known)
		set |= one
	}
	c.need(set != 0)
	return set
}

// texts returns the texts of a list that stand in an input as they are.
func texts(list []any) (out [][]byte) {
	for _, v := range list {
		if s, ok := v.(string); ok && plainText(s) {
			out = append(out, []byte(s))
		}
	}
	return out
}

func plainText(s string) bool {
	quoted := []byte(`"` + s + `"`)
	end, plain := rawjson.Text(quoted, 0)
	return plain && end == len(quoted)
}

func (c *quickCompiler) properties(q *quickSchema, v any, depth int) {
	obj, ok := v.(map[string]any)
	c.need(ok)
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		q.members = append(q.members, quickMember{name, c.compile(obj[name], depth+1)})
	}
	c.need(len(q.members) <= maxQuickMembers)
}

func (c *quickCompiler) required(q *quickSchema, v any) {
	for _, r := range c.array(v) {
		name, ok := r.(string)
		at := slices.IndexFunc(q.members, func(m quickMember) bool { return m.name == name })
		if c.need(ok && (at >= 0 || !q.closed && q.others == nil)); at < 0 {
			at = len(q.members)
			q.members = append(q.members, quickMember{name: name})
		}
		if c.need(at < maxQuickMembers); c.failed {
			return
		}
		q.required |= 1 << at
	}
}

// size reads a number that is not negative.
func (c *quickCompiler) size(v any) int {
	n, _ := v.(json.Number)
	i, err := strconv.Atoi(string(n))
	c.need(err == nil && i >= 0)
	return i
}

func (c *quickCompiler) bound(v any) *quickBound {
	n, _ := v.(json.Number)
	b := numberOf([]byte(n))
	c.need(b.near)
	return &b
}
