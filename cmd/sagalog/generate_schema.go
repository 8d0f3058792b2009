package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/recordschema"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

// fileSchemas are the JSON Schemas of the files that people write, by the kind of file.
var fileSchemas = map[string]func() []byte{
	"definition": scheduler.JSONSchema, "schedule": scheduler.ScheduleSchema, "limit": scheduler.LimitSchema,
	"agent": func() []byte { return agentfile.JSONSchema(agentKinds()...) },
}

var fileKinds = []string{"definition", "schedule", "limit", "agent"}

// schemaNames are the names of all schemas.
func schemaNames() []string { return slices.Concat(fileKinds, recordschema.Names()) }

// schemaOf returns the schema with that name.
func schemaOf(name string) ([]byte, error) {
	if of, ok := fileSchemas[name]; ok {
		return of(), nil
	}
	if text, ok := recordschema.One(name); ok {
		return text, nil
	}
	return nil, usage("there is no schema of %q: %s", name, events.Suggest(name, schemaNames()))
}

func generateSchema() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "schema [NAME...]", Short: "Print JSON Schemas: of the files that you write, and of all records in Kafka", ValidArgs: schemaNames(),
		Long: `Print a JSON Schema (2020-12). Without a name it is one document with the values of all records of a namespace, each under $defs by its name:
every fact of the log, such as StepCompleted, what producers, agents and operators write and read, such as Submission, Work, Report, Request
and Alert, and the entities of the state, such as TaskEntity. With a name it is only that schema, with all that it refers to. For an
unknown name the command suggests the nearest one, or lists all.

definition, schedule, limit and agent are the files that you write. An editor with a YAML language server completes and checks a file that
begins with this line:

  # yaml-language-server: $schema=workflow.schema.json

--to DIR writes a file NAME.schema.json for each name, or for every schema if you give no name.

The schemas describe the value of a record; "sagalog generate asyncapi" adds topics, headers and keys. Readers must ignore members that they do not
know, and the schemas allow them, except in a submission.`,
		Example: `  sagalog generate schema definition > workflow.schema.json
  sagalog generate schema agent > agent.schema.json
  sagalog generate schema StepCompleted
  sagalog generate schema > records.schema.json
  sagalog generate schema Submission Report --to schemas`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if dir != "" {
				return writeSchemas(dir, names)
			}
			text := recordschema.All()
			switch {
			case len(names) > 1:
				return usage("several schemas need --to DIR, which writes a file for each")
			case len(names) == 1:
				var err error
				if text, err = schemaOf(names[0]); err != nil {
					return err
				}
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
	c.Flags().StringVar(&dir, "to", "", "directory in which to write a file for each schema; it is created if it is missing")
	return c
}

// writeSchemas writes a file for each schema, of all names if none is given. It writes none if a name is wrong.
func writeSchemas(dir string, names []string) error {
	if len(names) == 0 {
		names = schemaNames()
	}
	texts := make([][]byte, len(names))
	for i, name := range names {
		var err error
		if texts[i], err = schemaOf(name); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name+".schema.json"), texts[i], 0o644); err != nil {
			return err
		}
	}
	return nil
}

func generateAsyncAPI() *cobra.Command {
	var namespace, format string
	formats := []string{"yaml", "json"}
	c := &cobra.Command{
		Use: "asyncapi", Short: "Print an AsyncAPI document of the topics of a namespace", Args: cobra.NoArgs,
		Long: `Print an AsyncAPI 3.0.0 document of the topics of a namespace: which records are in which topic, with which key and headers, and the schemas of
their values. Tools generate documentation and code from it. Its operations are those of programs other than Sagalog: "send" means that such a program
writes the record, and "receive" that it reads it. The command contacts no broker, so the topics of agents appear as one, with the agent's name as a
parameter.`,
		Example: `  sagalog generate asyncapi > sagalog.asyncapi.yaml
  sagalog generate asyncapi --namespace shop -o json > shop.asyncapi.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !namespaceName.MatchString(namespace):
				return usage("--namespace %q cannot begin the names of topics: use up to 100 letters, digits, dots, dashes and underscores", namespace)
			case !slices.Contains(formats, format):
				return usage("-o %q is not known; %s", format, events.Suggest(format, formats))
			}
			text := recordschema.AsyncAPI(namespace)
			if format == "yaml" {
				var err error
				if text, err = recordschema.YAML(text); err != nil {
					return fmt.Errorf("write the document as YAML: %w", err)
				}
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
	c.Flags().StringVar(&namespace, "namespace", events.DefaultNamespace, "prefix of all topic names")
	c.Flags().StringVarP(&format, "output", "o", formats[0], strings.Join(formats, " or "))
	return c
}
