// Package secretfile reads files with secrets, and reads them again when they have changed, without a restart. It is apart from package access, since
// agents need it for the file of their sealing key, and no identity provider.
//
// # Invariants
//
//   - A private file that others may read is refused.
//   - A changed file that cannot be used changes nothing: what it held before stays valid, and the log says so once.
//   - No error and no log line of this package repeats what a file holds.
//
// # What it refuses to do
//
// It writes no file, and knows nothing of what files hold.
package secretfile
