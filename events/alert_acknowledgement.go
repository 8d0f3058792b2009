package events

// AlertAcknowledgement is the value of a record of the definitions with the type TypeAlertAcknowledgement: somebody takes care of
// an open alert. The alert stays open until its cause is gone.
type AlertAcknowledgement struct {
	// Alert is the ID of the alert.
	Alert string `json:"alert"`
	Note  string `json:"note,omitempty"`
	By    string `json:"by,omitempty"`
	// Over says that the alert is no longer open, so its acknowledgement is forgotten.
	Over bool `json:"over,omitzero"`
}

// Key is the key of its record. The latest record of a key counts.
func (a *AlertAcknowledgement) Key() string { return "alert/" + a.Alert }
