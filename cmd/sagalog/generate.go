package main

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

// schemas are the JSON Schemas by the kind of file that they describe.
var schemas = map[string]func() []byte{
	"definition": scheduler.JSONSchema, "schedule": scheduler.ScheduleSchema, "limit": scheduler.LimitSchema,
	"agent": func() []byte { return agentfile.JSONSchema(agentKinds()...) },
}

var schemaKinds = []string{"definition", "schedule", "limit", "agent"}

func generateCommand() *cobra.Command {
	g := &cobra.Command{Use: "generate", Short: "Print files that other programs read"}
	g.AddCommand(&cobra.Command{
		Use: "schema definition|schedule|limit|agent", Short: "Print the JSON Schema of a workflow's definition, of a schedule, of a named limit or of an agent's file", Args: cobra.ExactArgs(1), ValidArgs: schemaKinds,
		Long: "Print the JSON Schema (2020-12) of a workflow's definition, of a schedule, of a named limit or of an agent's file. An editor with a YAML language server\n" +
			"completes and checks a file that begins with this line:\n\n  # yaml-language-server: $schema=workflow.schema.json",
		Example: "  sagalog generate schema definition > workflow.schema.json\n  sagalog generate schema limit > limit.schema.json\n  sagalog generate schema agent > agent.schema.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			schema, ok := schemas[args[0]]
			if !ok {
				return usage("there is no schema of %q: %s", args[0], events.Suggest(args[0], schemaKinds))
			}
			_, err := cmd.OutOrStdout().Write(schema())
			return err
		},
	})
	g.AddCommand(generateMonitoring()...)
	g.AddCommand(generateHelm())
	return g
}
