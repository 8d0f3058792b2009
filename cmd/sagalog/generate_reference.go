package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/jsontext"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/reference"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/spf13/cobra"
)

//go:generate go run . generate reference ../../docs/reference

func generateReference() *cobra.Command {
	return &cobra.Command{
		Use: "reference DIR", Short: "Write the references of this version as Markdown", Args: cobra.ExactArgs(1),
		Long: `Write the references of this version as Markdown into a directory: commands, exit codes, HTTP API, files of workflows, schedules, limits and agents,
expressions, settings, limits and metrics. Files of the same names are replaced. To know its own API and metrics, the command starts an engine in a
temporary directory for a moment, on free ports of this machine.`,
		Example: "  sagalog generate reference ./reference",
		RunE: func(cmd *cobra.Command, args []string) error {
			pages, err := references(cmd.Context(), cmd.Root())
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for name, text := range pages {
				if err := os.WriteFile(filepath.Join(args[0], name), text, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// references returns the pages by the names of their files.
func references(ctx context.Context, root *cobra.Command) (pages map[string][]byte, err error) {
	var codes []reference.Code
	for i, means := range cli.ExitCodes() {
		codes = append(codes, reference.Code{Code: i, Means: means})
	}
	pages = map[string][]byte{
		"cli.md": reference.Commands(root), "settings.md": reference.Settings(), "exit-codes.md": reference.ExitCodes(codes), "limits.md": reference.Limits(fixedLimits()),
	}
	if err := filePages(pages); err != nil {
		return nil, err
	}
	api, metrics, err := ofAnEngine(ctx)
	if err != nil {
		return nil, err
	}
	var wrong [2]error
	pages["expressions.md"], wrong[0] = reference.Expressions()
	pages["http.md"], wrong[1] = reference.HTTP(api)
	pages["metrics.md"] = metrics
	return pages, errors.Join(wrong[:]...)
}

// filePages adds the pages of the files that people write.
func filePages(pages map[string][]byte) error {
	var wrong [3]error
	pages["definition.md"], wrong[0] = reference.Files("Definition of a workflow",
		"Every key of a workflow's file, from its JSON Schema (`sagalog generate schema definition`). [Writing workflows](../workflows.md) explains them with examples, and\n"+
			"`sagalog workflow validate FILE` finds every fault of a file.",
		reference.File{Title: "Workflow", Schema: scheduler.JSONSchema()})
	pages["schedule-limit.md"], wrong[1] = reference.Files("Schedules and limits",
		"Every key of the files for `sagalog schedule apply` and `sagalog limit apply`, from their JSON Schemas. [Schedules](../workflows.md#schedules) explains when something is due.",
		reference.File{Title: "Schedule", Schema: scheduler.ScheduleSchema()}, reference.File{Title: "Limit", Schema: scheduler.LimitSchema()})
	pages["agent-file.md"], wrong[2] = reference.Files("Agent file",
		"Every key of the file that binds an agent to an HTTP service or a command, from its JSON Schema (`sagalog generate schema agent`). [Agents](../agents.md) explains them with examples.",
		reference.File{Title: "Agent", Text: "A file has one of these kinds; several agents in one file are separated by a line with `---`.", Variants: []string{"HTTP", "Command"}, Schema: fileSchemas["agent"]()})
	return errors.Join(wrong[:]...)
}

// fixedLimits are the limits that a user may meet and that are no settings.
func fixedLimits() []reference.Limit {
	return []reference.Limit{
		{What: "a task ID, in bytes of UTF-8", Value: events.MaxTaskID},
		{What: "labels of a task", Value: events.MaxLabels},
		{What: "the key of a label", Value: events.MaxLabelKey, Bytes: true},
		{What: "the value of a label", Value: events.MaxLabelValue, Bytes: true},
		{What: "the priority of a task, and less than 0 by as much", Value: events.MaxPriority},
		{What: "levels of objects and lists in a submission", Value: events.MaxNestingLevels},
		{What: "entries of the list of a fan-out", Value: events.MaxItems},
		{What: "levels of children below each other", Value: events.MaxDepth},
		{What: "the progress of a step that its next attempt gets", Value: events.MaxProgress, Bytes: true},
		{What: "the output in a reply", Value: events.MaxReplyOutput, Bytes: true},
		{What: "permits of a named limit", Value: events.MaxLimit},
		{What: "named operations that an instance offers of an agent", Value: events.MaxFunctions},
		{What: "repeats of the alert of a parked task", Value: events.MaxReminders},
		{What: "what the setting payload_bytes may be", Value: events.MaxPayloadBytes, Bytes: true},
		{What: "the digits of a number in an input, which can be sent as a text instead", Value: jsontext.MaxDigits},
		{What: "the exponent of such a number, and less than 0 by as much", Value: jsontext.MaxExponent},
		{What: "steps of a workflow", Value: scheduler.MaxSteps},
		{What: "the file of a workflow", Value: scheduler.MaxDocumentBytes, Bytes: true},
		{What: "a workflow with the files that it names and its defaults", Value: scheduler.MaxCompleteBytes, Bytes: true},
		{What: "objects and booleans in the schema of an input, with its files", Value: scheduler.MaxSubSchemas},
		{What: "values in the lists of such a schema", Value: scheduler.MaxListValues},
		{What: "versions of workflows in a namespace", Value: scheduler.MaxVersions},
		{What: "their size together", Value: scheduler.MaxBytes, Bytes: true, Note: "Deleted versions of workflows do not count."},
		{What: "schedules of a namespace", Value: scheduler.MaxSchedules},
		{What: "named limits of a namespace", Value: scheduler.MaxLimits},
		{What: "jobs that run in a namespace at the same time", Value: scheduler.MaxOpenJobs},
		{What: "work topics that nodes create in a namespace, one for each agent that steps wait for", Value: node.MaxWorkTopics, Note: "An agent that may create topics creates its work topic at its start, even beyond the limit of work topics. " +
			"Nothing deletes work topics, but `sagalog doctor` lists those that you can delete."},
	}
}

// ofAnEngine starts an engine with everything that has metrics, and returns its OpenAPI document, and the page of its metrics when it has run a task.
func ofAnEngine(ctx context.Context) (api, metrics []byte, err error) {
	dir, err := os.MkdirTemp("", "sagalog-reference-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := everything(dir)
	if err != nil {
		return nil, nil, err
	}
	d := &dev{cfg: c, process: newProcess(true), bindings: newBindings()}
	d.bindings.reports = new(reports)
	defer func() { err = errors.Join(err, d.close()) }()
	for _, step := range []func(context.Context) error{d.readFiles, d.openBroker, d.openFleet, d.openNode, d.applyWorkflows, d.openAgents} {
		if err := step(ctx); err != nil {
			return nil, nil, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	url, ended := "http://"+d.node.Addr(), make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	api, err = download(ctx, url+"/openapi.json")
	if err == nil {
		err = oneTask(ctx, url)
	}
	if err == nil {
		var exposed []byte
		if exposed, err = download(ctx, url+"/metrics"); err == nil {
			metrics, err = reference.Metrics(d.metrics, exposed) // before the end, which takes the store's metrics away
		}
	}
	stop()
	return api, metrics, errors.Join(err, <-ended)
}

// oneTask runs a task of the example, so that each histogram has a value.
func oneTask(ctx context.Context, url string) error {
	c, err := client.Open(url)
	if err != nil {
		return err
	}
	defer c.Close()
	delivery := dronedelivery.Submission(1, 1)
	input, err := json.Marshal(delivery.Input)
	if err != nil {
		return err
	}
	task, err := c.Run(ctx, client.Submission{ID: delivery.ID, Workflow: delivery.Workflow, Input: input})
	if err == nil && task.State != client.StateProcessed {
		err = fmt.Errorf("the task of the example ended as %s: %s", task.State, task.Reason)
	}
	return err
}

// everything returns the configuration of an engine all of whose parts are on. Nothing is sent to its webhook, since no task ends that fast.
func everything(dir string) (devConfig, error) {
	c := devConfig{data: filepath.Join(dir, "data"), http: "127.0.0.1:0", kafka: "127.0.0.1:0", demo: demoDrone}
	c.quiet, c.partitions, c.settings = true, 1, events.DefaultSettings()
	c.sealKeyFile = filepath.Join(dir, "seal.key")
	c.receiver = receiver{url: "http://127.0.0.1:1/", secretFile: filepath.Join(dir, "webhook.secret")}
	secret := make([]byte, 32)
	rand.Read(secret)
	err := os.WriteFile(c.secretFile, []byte("whsec_"+base64.StdEncoding.EncodeToString(secret)), 0o600)
	return c, errors.Join(err, createKey(io.Discard, c.sealKeyFile))
}

func download(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s answered %s", url, answer.Status)
	}
	return io.ReadAll(answer.Body)
}
