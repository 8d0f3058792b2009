package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const (
	checkpointsPath = "/v1/checkpoints"
	// checkpointBytes is more than a path needs.
	checkpointBytes = 16 << 10
	maxPath         = 4096
)

var (
	// ErrCheckpointBusy is returned by MakeCheckpoint while another is being made.
	ErrCheckpointBusy = errors.New("a checkpoint is being made")
	// ErrCheckpointPlace is returned by MakeCheckpoint for a place outside the node's directory of checkpoints. The text behind it is that directory.
	ErrCheckpointPlace = errors.New("checkpoints of this node are made directly in its directory of checkpoints")
	// ErrCheckpointExists is returned by MakeCheckpoint if something has the name.
	ErrCheckpointExists = errors.New("this checkpoint exists")
	// ErrCheckpointMany is returned by MakeCheckpoint if the directory is full. The text behind it is that directory.
	ErrCheckpointMany = errors.New("there are too many entries in the directory of checkpoints")
)

// Checkpoints makes checkpoints of the state of this node.
type Checkpoints interface {
	// MakeCheckpoint makes one, by its name or path, or named by the time if to is empty. On return it is durable.
	MakeCheckpoint(ctx context.Context, to string) (CheckpointDocument, error)
}

// CheckpointPartition is a partition in a checkpoint.
type CheckpointPartition struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset" doc:"The offset of the first record that is not folded"`
	Hash      string `json:"hash" doc:"As state hash prints it"`
}

// CheckpointDocument is a checkpoint of a node's state.
type CheckpointDocument struct {
	Path        string                `json:"path" doc:"Its directory, on the machine of the node"`
	Node        string                `json:"node,omitempty"`
	Namespace   string                `json:"namespace"`
	NamespaceID string                `json:"namespace_id"`
	Time        events.Instant        `json:"time" format:"date-time"`
	Bytes       int64                 `json:"bytes" doc:"The size of its files; most are shared with the state of the node at first"`
	Files       int                   `json:"files"`
	KeysMissing bool                  `json:"keys_missing,omitempty" doc:"The namespace encrypts, and the checkpoint holds no keys: without keys from elsewhere, nothing encrypted in it can be opened"`
	Partitions  []CheckpointPartition `json:"partitions" nullable:"false" doc:"Those that the node has folded"`
}

// CheckpointAnswer is a checkpoint.
type CheckpointAnswer struct{ Body CheckpointDocument }

// CheckpointBody says where a checkpoint is to be made.
type CheckpointBody struct {
	To string `json:"to,omitempty" doc:"Its name, or its path directly in the node's directory of checkpoints. Default: a name by the time"`
}

// checkpoints makes checkpoints.
type checkpoints struct {
	checkpoints Checkpoints
	node        string
	log         logger
}

func (c *checkpoints) register(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "make-checkpoint", Method: http.MethodPost, Path: checkpointsPath, Summary: "Make a checkpoint of the state of this node", Tags: []string{"engine"},
		Description: "A copy of the state as of now, by hard links, on the machine of the node that is asked; the node works on meanwhile. It is durable when it is answered. " +
			"Other nodes make their own.",
	}), c.make)
	describeBody(api, checkpointsPath, http.MethodPost, described{reflect.TypeFor[CheckpointBody](), map[string]any{"to": "before-upgrade"}, checkpointBytes}, contentJSON)
	api.OpenAPI().Paths[checkpointsPath].Post.RequestBody.Required = false
}

func (c *checkpoints) make(ctx context.Context, _ *struct{}) (*CheckpointAnswer, error) {
	to, err := exchangeOf(ctx).readCheckpoint()
	if err != nil {
		return nil, err
	}
	if c.checkpoints == nil {
		return nil, problem(http.StatusConflict, codePrecondition, "This engine makes no checkpoints.")
	}
	d, err := c.checkpoints.MakeCheckpoint(ctx, to)
	switch {
	case errors.Is(err, ErrCheckpointBusy):
		return nil, problem(http.StatusConflict, codePrecondition, "A checkpoint is being made at the moment. Ask again when it is complete.")
	case errors.Is(err, ErrCheckpointExists):
		return nil, problem(http.StatusConflict, codePrecondition, "There is a checkpoint of that name. Give another one.")
	case errors.Is(err, ErrCheckpointMany):
		return nil, problem(http.StatusConflict, codePrecondition, "No checkpoint is made: "+err.Error()+". Delete old ones on the machine of the node; it removes only those that it made by itself.")
	case errors.Is(err, ErrCheckpointPlace):
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "No checkpoint is made.", ProblemPlace{Pointer: "/to", Message: err.Error() +
			": give a name of letters, digits, dots, dashes and underscores, not beginning with auto-, or a path directly in that directory; --checkpoints sets it"})
	case err != nil:
		return nil, c.log.internal(ctx, "make a checkpoint", err)
	}
	d.Node = c.node
	return &CheckpointAnswer{d}, nil
}

// readCheckpoint reads the body {"to"}, which is optional.
func (x exchange) readCheckpoint() (to string, err error) {
	data, err := x.readBody(checkpointBytes, "a checkpoint")
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return "", err
	}
	if err := x.acceptsJSON(); err != nil {
		return "", err
	}
	var faults []ProblemPlace
	err = x.readMembers(data, []string{"to"}, func(_ string, raw json.RawMessage) {
		if json.Unmarshal(raw, &to) != nil || len(to) > maxPath {
			faults = append(faults, ProblemPlace{Pointer: "/to", Message: "is not a name or a path"})
		}
	})
	if err == nil && len(faults) > 0 {
		err = problem(http.StatusUnprocessableEntity, codeInvalid, "No checkpoint is made.", faults...)
	}
	return to, err
}
