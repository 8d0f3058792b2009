// Package doctor examines a cluster: whether its brokers can be reached, which permissions we have, and whether its topics
// can lose records.
//
//	Preflight  examines everything that a process needs and creates missing topics; if something is wrong, it names a remedy
//	Diagnose   examines the same and changes nothing (sagalog doctor)
//	Reach      examines only the brokers
//	Audit      examines the settings of topics
//	Inspect    is Audit that also warns of topics with too few copies; a node calls it at the start and hourly
//
// # Invariants
//
//   - Each finding that is not ok says what an operator can do, most often by a command.
//   - No finding holds a secret.
//   - Only Preflight changes anything, and it only creates topics.
//   - Problems that may pass without help, such as a broker that is starting, are given time: Need.Patience.
//
// # What it refuses to do
//
// It repairs nothing: an operator has to correct settings and permissions, and to restore lost topics.
package doctor
