package scheduler

import (
	"maps"
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// guard takes the place of a compiled schema, which it wraps. So a visit is paid for before it is made, and its errors are
// counted when it is over. References lead to the guard.
type guard struct {
	budget *visits
	behind *jsonschema.Schema
	cost   int
}

// notKept stands for errors that nobody will read: because there are too many, or because only the validity of the value matters.
var notKept = &jsonschema.ValidationError{}

// Validate implements jsonschema.SchemaExt.
func (g *guard) Validate(ctx *jsonschema.ValidatorContext, v any) {
	b := g.budget
	outer, kept := b.enter(len(ctx.ValueLocation())), b.kept
	b.spend(g.cost + costOf(v, g.behind.UniqueItems))
	err := ctx.Validate(g.behind, v, nil)
	b.now, b.kept = outer, kept // a valid value keeps none of the errors that were made on the way
	if invalid, ok := err.(*jsonschema.ValidationError); ok {
		ctx.AddErr(b.keep(invalid))
	}
}

// keep returns the error with no more causes than there is room for, and counts them.
func (v *visits) keep(err *jsonschema.ValidationError) *jsonschema.ValidationError {
	if err.ErrorKind == nil {
		return notKept
	}
	all, room := leaves(err, nil), maxInputFaults-v.kept
	all = all[:min(len(all), room)]
	v.kept += len(all)
	switch {
	case len(all) == 0:
		return notKept
	case len(all) == 1:
		return all[0]
	}
	return &jsonschema.ValidationError{SchemaURL: err.SchemaURL, InstanceLocation: err.InstanceLocation, ErrorKind: err.ErrorKind, Causes: all}
}

// guarded puts a guard before each schema. compiled are the schemas that are objects; some are found only by a dynamic reference.
// Boolean schemas are found through those.
func (v *visits) guarded(compiled []*jsonschema.Schema) {
	seen := map[*jsonschema.Schema]bool{}
	for len(compiled) > 0 {
		s := compiled[len(compiled)-1]
		compiled = compiled[:len(compiled)-1]
		if !seen[s] {
			seen[s] = true
			compiled = append(compiled, schemasIn(s)...)
		}
	}
	for s := range seen {
		cost := fixedCost(s) // after hollow, nothing is left to count
		s.Extensions = []jsonschema.SchemaExt{&guard{budget: v, behind: hollow(s), cost: cost}}
	}
}

// hollow moves the keywords of a schema to a new one, which it returns. What the library needs to find a dynamic reference stays, too.
func hollow(s *jsonschema.Schema) *jsonschema.Schema {
	behind := *s
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && !slices.Contains([]string{"DraftVersion", "Location", "RecursiveAnchor", "DynamicAnchor"}, f.Name) {
			v.Field(i).SetZero()
		}
	}
	return &behind
}

// schemasIn returns the schemas that the keywords of a schema hold or refer to.
func schemasIn(s *jsonschema.Schema) (out []*jsonschema.Schema) {
	add := func(some ...*jsonschema.Schema) {
		for _, x := range some {
			if x != nil {
				out = append(out, x)
			}
		}
	}
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f := v.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			add(f)
		case []*jsonschema.Schema:
			add(f...)
		case map[string]*jsonschema.Schema:
			add(slices.Collect(maps.Values(f))...)
		case map[jsonschema.Regexp]*jsonschema.Schema:
			add(slices.Collect(maps.Values(f))...)
		case map[string]any: // dependencies: names or a schema
			for _, x := range f {
				if x, ok := x.(*jsonschema.Schema); ok {
					add(x)
				}
			}
		case *jsonschema.DynamicRef:
			if f != nil {
				add(f.Ref)
			}
		}
	}
	return out
}

// vocabulary collects the compiled schemas that are objects. It adds no keyword.
func vocabulary(compiled *[]*jsonschema.Schema) *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: schemaBase + "guarded",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			*compiled = append(*compiled, ctx.Enqueue(nil)) // an empty path leads to the schema itself
			return nil, nil
		},
	}
}
