package scheduler

import (
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A plain schema needs no guards for a small input: they cost more than the validation, and could never stop it. No reference
// leads back, and each keyword passes a value to at most one schema. So each value is visited once, a text of plainInput bytes
// has at most half as many values, and all visits together cost less than inputBudget.
const (
	plainInput = 4 << 10
	// plainCost is the maximum fixed cost of a visit. It also keeps the errors of all visits within a few megabytes.
	plainCost = 8
)

// plainKeywords are the keywords that a plain schema may have. Keywords that the library adds are not among them.
var plainKeywords = []string{"DraftVersion", "Location", "ID", "Bool", "Types", "Enum", "Const", "MaxProperties", "MinProperties", "Required",
	"Properties", "AdditionalProperties", "MinItems", "MaxItems", "Items2020", "MinLength", "MaxLength", "Maximum", "Minimum",
	"ExclusiveMaximum", "ExclusiveMinimum", "MultipleOf", "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples",
	"Deprecated"}

// isPlain must be called before the guards are in place.
func isPlain(root *jsonschema.Schema) bool {
	for pending := []*jsonschema.Schema{root}; len(pending) > 0; {
		s := pending[len(pending)-1]
		if !hasOnlyPlainKeywords(s) || fixedCost(s) > plainCost {
			return false
		}
		pending = append(pending[:len(pending)-1], schemasIn(s)...) // without references, it is a tree
	}
	return true
}

func hasOnlyPlainKeywords(s *jsonschema.Schema) bool {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && !v.Field(i).IsZero() && !slices.Contains(plainKeywords, f.Name) {
			return false
		}
	}
	return true
}
