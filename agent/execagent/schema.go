package execagent

import "github.com/sagalog/sagalog/internal/agentfile"

// JSONSchema returns the JSON Schema (draft 2020-12) of a binding, for editors. Its bounds and words are those of the parser. It
// describes the shape only; Parse checks the rest, above all the expressions.
func JSONSchema() []byte { return agentfile.JSONSchema(Kind()) }

func schema() agentfile.Object {
	type object = agentfile.Object
	codes := func(description string) object {
		return object{"type": "array", "description": description, "items": object{"type": "integer", "minimum": 1, "maximum": 255}, "examples": [][]int{{75}}}
	}
	scalar := object{"type": []string{"string", "number", "boolean"}}
	members := func() object {
		return object{
			"command": object{"type": "array", "items": scalar, "minItems": 1, "description": "The program and its arguments. The arguments may hold expressions. No shell reads them.", "examples": [][]string{{"/usr/bin/convert", "--", "${ input.file }"}}},
			"env": object{"description": "The whole environment: variables that are passed on, or names with values. Absent: none.", "oneOf": []object{
				{"type": "array", "items": agentfile.SchemaText("An environment variable that is passed on."), "examples": [][]string{{"PATH", "HOME"}}},
				{"type": "object", "additionalProperties": scalar, "examples": []object{{"TOKEN": "${ env.TOKEN }"}}},
			}},
			"dir":   agentfile.SchemaText("The absolute path of the directory in which the command runs. Absent: that of the agent."),
			"stdin": object{"enum": []string{formatJSON, formatNone}, "description": "What the command reads: the input as JSON, which is the default, or nothing."},
			"grace": agentfile.SchemaDuration("How long the command may take to end after SIGTERM, at most 1m and a quarter of the attempt's time. Default: 2s."),
			"exit_codes": agentfile.SchemaMapping("What exit codes mean. 0 is success.", object{
				"success":   codes("Codes that mean success, besides 0."),
				"retry":     codes("Codes after which the attempt may be repeated; all others are permanent. Default: 75."),
				"permanent": codes("Codes after which no retry can help; all others may be repeated. Not together with retry."),
			}),
		}
	}
	do := members()
	do["stdout"] = object{"enum": outputFormats, "description": "How the output is read: one JSON value, which is the default, one text, or a list of lines."}
	do["concurrency"] = agentfile.SchemaInteger(maxConcurrency, "How many commands run at once.")
	do["public"] = agentfile.SchemaPublic()
	undo := agentfile.SchemaMapping("What undoes the step; absent if the agent undoes nothing.", object{
		"exec": agentfile.SchemaMapping("The command. It takes from the other what it does not say itself.", members(), "command"),
	}, "exec")
	own := members()
	own["stdout"] = do["stdout"]
	binding := agentfile.SchemaMapping("How a step runs a command.", object{
		"agent": agentfile.SchemaAgent(),
		"exec":  agentfile.SchemaMapping("The command that does the step, and what other commands take from it. It may lack the command if operations have theirs.", do),
		"undo":  undo,
		agentfile.KeyOperations: agentfile.SchemaOperations(agentfile.SchemaMapping("The commands of the operation.", object{
			"exec": agentfile.SchemaMapping("The command that does the step. It takes from the agent's exec what it does not say itself.", own, "command"), "undo": undo,
		}, "exec")),
	}, "agent", "exec")
	binding["anyOf"] = []object{
		{"properties": object{"exec": object{"required": []string{"command"}}}},
		{"required": []string{agentfile.KeyOperations}, "properties": object{"undo": false}},
	}
	return binding
}
