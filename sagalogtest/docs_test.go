package sagalogtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

// The blocks of docs/go.md that have a language are the files that it names above each, which are compiled, and whose test runs. The others are
// commands.
func TestTheBlocksOfThePageAreItsFiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/go.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)\\]\\((examples/go/[^)]+)\\):\n\n```[a-z]+\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, len(regexp.MustCompile("(?m)^```[a-z]+$").FindAll(page, -1)), "each block with a language is a file")
	require.Len(t, blocks, 4)
	for _, b := range blocks {
		file, err := os.ReadFile(filepath.Join("../docs", b[1]))
		require.NoError(t, err)
		require.Equal(t, string(file), b[2], "%s", b[1])
	}
}

// The definition that the documents of packages show is the same in each. An engine takes it, and it does what its comments say.
func TestTheDefinitionInThePackageDocumentsRuns(t *testing.T) {
	t.Parallel()
	definitions := map[string]string{}
	for _, file := range []string{"doc.go", "../scheduler/doc.go", "../scheduler/client/doc.go"} {
		doc, err := os.ReadFile(file)
		require.NoError(t, err)
		block := regexp.MustCompile(`(?m)^//\tworkflow: .*\n(//\t.*\n)+`).Find(doc)
		require.NotEmpty(t, block, "%s has a definition", file)
		definitions[strings.ReplaceAll(string(block), "//\t", "")] = file
	}
	require.Len(t, definitions, 1)

	e := sagalogtest.Start(t)
	for definition := range definitions {
		e.Apply(definition)
	}
	type payment struct {
		Total       int    `json:"total"`
		Reservation string `json:"reservation"`
	}
	agents := agent.NewRegistry()
	agent.Handle(agents, "stock", func(context.Context, any) (map[string]string, error) { return map[string]string{"id": "r-1"}, nil },
		agent.WithUndo(func(context.Context, agent.Undo[any, map[string]string]) error { return nil }))
	agent.Handle(agents, "bank", func(_ context.Context, p payment) (string, error) {
		if p.Total > 100 {
			return "", agent.NoEffect(agent.Permanent(errors.New("the card is refused")))
		}
		return "paid for " + p.Reservation, nil
	})
	e.Serve(agents)

	task, err := e.Client().Run(t.Context(), client.Submission{Workflow: "order", Input: json.RawMessage(`{"total": 12}`)})
	require.NoError(t, err)
	require.Equal(t, client.StateProcessed, task.State, "%+v", task)
	require.JSONEq(t, `"paid for r-1"`, string(task.Output))
	task, err = e.Client().Run(t.Context(), client.Submission{Workflow: "order", Input: json.RawMessage(`{"total": 120}`)})
	require.NoError(t, err)
	require.Equal(t, client.StateUndone, task.State, "%+v", task)
	require.Equal(t, client.StepUndone, task.Step("reserve").State)
	_, err = e.Client().Submit(t.Context(), client.Submission{Workflow: "order", Input: json.RawMessage(`{}`)})
	require.ErrorIs(t, err, client.ErrInvalid)
}
