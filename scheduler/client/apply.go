package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"go.yaml.in/yaml/v4"
)

// Applied is the engine's answer to a definition.
type Applied struct {
	// Name is the workflow's, and Version that of this content.
	Name    string `json:"name"`
	Version int    `json:"version"`
	Hash    string `json:"hash"`
	// Changed is false if that content was current already.
	Changed bool `json:"changed"`
	// Warnings name what is allowed and may be a mistake, such as an agent of which no instance runs.
	Warnings []Place `json:"warnings"`
}

// Apply makes the definition of a workflow, in YAML or JSON, the current one. New tasks use it; tasks that run keep theirs. Applying the same
// content again changes nothing. ErrInvalid: its *Error has every fault with line and column.
//
// The definition is complete in itself: a schema in another file (`$ref`) has to be written into it, as `sagalog workflow apply` does.
func (e *Engine) Apply(ctx context.Context, definition []byte) (Applied, error) {
	var head struct {
		Workflow string `yaml:"workflow"`
	}
	if err := yaml.Unmarshal(definition, &head); err != nil {
		return Applied{}, &Error{Kind: ErrInvalid, Detail: fmt.Sprintf("the definition: %s", err)}
	}
	if head.Workflow == "" {
		return Applied{}, &Error{Kind: ErrInvalid, Detail: "the definition begins without the name of its workflow", Places: []Place{{Pointer: "/workflow", Message: "is missing"}}}
	}
	var a Applied
	err := e.api.insist(ctx, call{
		method: http.MethodPut, path: "/v1/workflows/" + url.PathEscape(head.Workflow), body: definition, content: "application/yaml",
		engines: func() bool { return a.Name == head.Workflow && a.Version > 0 },
	}, &a)
	return a, err
}
