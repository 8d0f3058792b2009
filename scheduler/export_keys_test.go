package scheduler

// KeyTables are the keys of the parser, by the path of their mapping in the published schema.
var KeyTables = map[string][]string{
	"":                                    workflowKeys,
	"properties/defaults":                 defaultsKeys,
	"properties/defaults/properties/undo": undoDefaultsKeys,
	"$defs/step":                          stepKeys,
	"$defs/retry":                         retryKeys,
	"$defs/undoRetry":                     retryKeys,
	"$defs/coolDown":                      coolDownKeys,
	"$defs/undo":                          undoKeys,
	"$defs/for":                           forKeys,
	"$defs/wait":                          waitKeys,
	"$defs/sleepUntil":                    sleepKeys,
}

// LimitKeys are the keys of the object of a named limit.
var LimitKeys = limitKeys
