// Package batch reads record batches as they are on the wire and in the files of the embedded broker.
//
//	Batch     one whole batch: its offsets, its times, its attributes; Parse checks its checksum
//	Decoder   shows the records of a broker's answers, for ranges and scans
//	Unpacker  decompresses a batch, up to a limit of bytes and of records
//	Records   converts what the client has decoded
//
// # Invariants
//
//   - A Decoder shows the records that the client would show, and rejects what the client rejects. It leaves batches that it does not
//     understand to the client.
//   - Whatever the bytes are, it allocates at most a small multiple of their length, or of the limit of its Unpacker.
//   - Keys, values and headers are not copied: they stay valid as long as the answer that contains them.
//
// # What it refuses to do
//
// It asks no broker and opens no file. It does not check whether a batch fits the log around it: package embedded does.
package batch
