// Package rawjson walks JSON text without decoding it, for the few places where a profile says that decoding is what
// takes the time.
//
// It is sure or it is silent. What it accepts, encoding/json accepts, with the same meaning; where it is not sure (text
// that is no JSON, values nested deeper than it looks) it says so, and the caller asks encoding/json, whose errors are
// the ones that people read. So it needs no errors of its own, and encoding/json is its oracle in the tests.
//
// It allocates nothing: what it gives is part of what it was given.
package rawjson
