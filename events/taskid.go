package events

import "unicode/utf8"

// CheckTaskID returns an error unless the task ID is allowed: 1 to 255 bytes of UTF-8 without control characters, and not "." or
// ".." (no URL can name these).
func CheckTaskID(id string) error {
	switch {
	case id == "":
		return memberError("/id", "is required: the task's ID, which the submitter chooses")
	case len(id) > MaxTaskID:
		return memberError("/id", "has %d bytes; %d are allowed", len(id), MaxTaskID)
	case !utf8.ValidString(id):
		return memberError("/id", "is not UTF-8")
	case id == "." || id == "..":
		return memberError("/id", "%q cannot be used in a URL", id)
	}
	for _, r := range id {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return memberError("/id", "has the control character %U", r)
		}
	}
	return nil
}

// TaskID returns the task ID of a submission or report that came through Kafka. It may be in the record's key, in the ce_subject
// and in the object itself. The values that are present must agree.
func TaskID(key []byte, subject, own string) (string, error) {
	id := subject
	if id == "" {
		id = own
	}
	if len(key) > 0 && string(key) != id {
		if id != "" {
			return "", differs(id, string(key))
		}
		id = string(key)
	}
	if own != "" && own != id {
		return "", differs(own, id)
	}
	return id, CheckTaskID(id)
}

func differs(id, from string) error {
	return memberError("/id", "%q differs from the record's key or ce_subject %q", Clip(id, maxQuotedBytes), Clip(from, maxQuotedBytes))
}
