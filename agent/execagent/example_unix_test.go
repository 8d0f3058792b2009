//go:build unix

package execagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/execagent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

// A program with commands as agents calls Guard first: it starts itself as the guard of each command.
func ExampleParse() {
	execagent.Guard() // the first line of main
	bindings, err := execagent.Parse("count.yaml", []byte(`
agent: count
exec:
  command: [wc, -w]
  env: [PATH]
  stdout: text
`), os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	agents := agent.NewRegistry()
	for _, b := range bindings {
		b.Register(agents)
	}

	e, stop := sagalogtest.Open() // in production: agent.Dial
	defer stop()
	e.Apply("workflow: words\nsteps:\n  count: {agent: count}\noutput: \"${ steps.count.output }\"\n")
	stopAgents := e.Serve(agents)
	defer stopAgents()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	task, err := e.Client().Run(ctx, client.Submission{Workflow: "words", Input: json.RawMessage(`"three short words"`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.State, string(task.Output))
	// Output: processed "3"
}
