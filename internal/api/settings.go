package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const (
	settingsPath = "/v1/settings"
	// settingsBytes is far more than all settings need.
	settingsBytes = 16 << 10
)

// NamespaceSettings are the settings of a namespace.
type NamespaceSettings struct {
	Settings events.Settings
	// Offset is the offset of the definitions record that last changed a setting, or 0.
	Offset int64
	// Set holds, by name, the record that last set each setting. The others have their defaults.
	Set map[string]SettingRecord
	// Level is the namespace's level, LevelSet the record that last raised it, and Nodes the live nodes.
	Level    int
	LevelSet SettingRecord
	Nodes    []NodeLevel
}

// NodeLevel is a live node and the highest level that it understands.
type NodeLevel struct {
	Node  string `json:"node"`
	Level int    `json:"level" doc:"The highest level that its build understands"`
}

// SettingRecord is the record that set a setting.
type SettingRecord struct {
	Offset int64
	At     events.Instant
	By     string
}

// settings shows and changes the settings of the namespace.
type settings struct {
	settings  Settings
	namespace string
	log       logger
}

// SettingDocument is a setting of the namespace.
type SettingDocument struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value" doc:"A number, or a duration as text"`
	Default json.RawMessage `json:"default" doc:"Its value while no record sets it"`
	Offset  *int64          `json:"offset,omitempty" doc:"The offset of the record in the topic of definitions that set it; absent: none has"`
	SetAt   events.Instant  `json:"set_at,omitzero" format:"date-time"`
	By      string          `json:"by,omitempty" doc:"Who set it"`
	What    string          `json:"what" doc:"What the setting is"`
	Range   string          `json:"range" doc:"Which values are allowed"`
}

// SettingsDocument is the settings of the namespace.
type SettingsDocument struct {
	Namespace string            `json:"namespace"`
	Offset    int64             `json:"offset" doc:"The number of the settings: each partition adopts them by a fact SettingsAdopted with this offset"`
	Changed   bool              `json:"changed,omitzero" doc:"This call changed a setting, or the level"`
	Level     int               `json:"level" doc:"The version of the format that owners may write: see the operation upgrade-namespace"`
	LevelAt   events.Instant    `json:"level_set_at,omitzero" format:"date-time"`
	LevelBy   string            `json:"level_by,omitempty" doc:"Who raised the level"`
	Nodes     []NodeLevel       `json:"nodes" nullable:"false" doc:"The live nodes"`
	Settings  []SettingDocument `json:"settings" nullable:"false"`
}

// SettingsAnswer is the settings of the namespace.
type SettingsAnswer struct{ Body SettingsDocument }

// SettingsBody changes settings.
type SettingsBody struct {
	Settings map[string]any `json:"settings" doc:"The new values by name; settings that are not named stay as they are"`
	By       string         `json:"by,omitempty" doc:"Who changes them, for the record"`
}

func (s *settings) register(api huma.API) {
	tags := []string{"namespace"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-settings", Method: http.MethodGet, Path: settingsPath, Summary: "Read the settings of the namespace", Tags: tags,
	}), s.get)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "put-settings", Method: http.MethodPut, Path: settingsPath, Summary: "Change settings of the namespace", Tags: tags,
		Description: "Settings that the body does not name stay as they are. The change is durable when it is answered; each partition adopts it " +
			"by a fact within moments, and decides by it from then on. 422 names each setting that is unknown or out of its range.",
	}), s.put)
	example := map[string]any{"settings": map[string]any{"remember_for": "48h", "task_facts": 20000}, "by": "anna"}
	describeBody(api, settingsPath, http.MethodPut, described{reflect.TypeFor[SettingsBody](), example, settingsBytes}, contentJSON)
	s.registerUpgrade(api)
}

func (s *settings) get(ctx context.Context, _ *struct{}) (*SettingsAnswer, error) {
	now, err := s.settings.Settings(ctx)
	if err != nil {
		return nil, s.failed(ctx, "read the settings", err, "The Kafka brokers do not answer at the moment. Ask again.")
	}
	return &SettingsAnswer{Body: s.document(now)}, nil
}

func (s *settings) failed(ctx context.Context, act string, err error, remedy string) error {
	if errors.Is(err, ErrNoAnswer) {
		return problem(http.StatusServiceUnavailable, codeUnavailable, remedy).retryAfter(time.Second)
	}
	return s.log.internal(ctx, act, err)
}

func (s *settings) document(now NamespaceSettings) SettingsDocument {
	d := SettingsDocument{
		Namespace: s.namespace, Offset: now.Offset, Level: now.Level, LevelAt: now.LevelSet.At, LevelBy: now.LevelSet.By, Nodes: append([]NodeLevel{}, now.Nodes...),
	}
	for _, x := range events.SettingList() {
		one := SettingDocument{Name: x.Name, Value: x.Value(now.Settings), Default: x.Value(events.DefaultSettings()), What: x.What, Range: x.Range()}
		if r, set := now.Set[x.Name]; set {
			one.Offset, one.SetAt, one.By = &r.Offset, r.At, r.By
		}
		d.Settings = append(d.Settings, one)
	}
	return d
}

func (s *settings) put(ctx context.Context, _ *struct{}) (*SettingsAnswer, error) {
	x := exchangeOf(ctx)
	change, err := x.readSettings()
	if err != nil {
		return nil, err
	}
	change.By = x.by(change.By)
	now, changed, err := s.settings.ChangeSettings(ctx, change)
	if err != nil {
		return nil, s.failed(ctx, "change the settings", err,
			"The Kafka brokers do not answer at the moment. The settings may have been changed. Change them again: a repeat is safe.")
	}
	d := s.document(now)
	d.Changed = changed
	return &SettingsAnswer{Body: d}, nil
}

// readSettings reads a change, and refuses unknown settings and values out of their ranges.
func (x exchange) readSettings() (change events.SettingsChange, err error) {
	data, err := x.readBody(settingsBytes, "a change of settings")
	if err == nil {
		err = x.acceptsJSON()
	}
	if err != nil {
		return change, err
	}
	var faults []ProblemPlace
	err = x.readMembers(data, []string{"settings", "by"}, func(name string, raw json.RawMessage) {
		switch {
		case name == "by" && (json.Unmarshal(raw, &change.By) != nil || len(change.By) > events.MaxTaskID):
			faults = append(faults, ProblemPlace{Pointer: "/by", Message: "is not a text of at most 255 bytes"})
		case name == "settings" && json.Unmarshal(raw, &change.Settings) != nil:
			faults = append(faults, ProblemPlace{Pointer: "/settings", Message: "is not an object"})
		}
	})
	if err != nil {
		return change, err
	}
	if len(faults) == 0 && len(change.Settings) == 0 {
		faults = append(faults, ProblemPlace{Pointer: "/settings", Message: `names no setting, such as {"remember_for": "48h"}`})
	}
	faults = append(faults, settingFaults(change)...)
	if len(faults) > 0 {
		return change, problem(http.StatusUnprocessableEntity, codeInvalid, "The settings cannot be changed like this; nothing is changed.", faults...)
	}
	return change, nil
}

func settingFaults(change events.SettingsChange) (faults []ProblemPlace) {
	for name, value := range change.Settings {
		setting, err := events.SettingOf(name)
		if err == nil {
			var s events.Settings
			err = setting.Set(&s, value)
		}
		if err != nil {
			faults = append(faults, ProblemPlace{Pointer: "/settings/" + name, Message: err.Error()})
		}
	}
	slices.SortFunc(faults, func(a, b ProblemPlace) int {
		if a.Pointer < b.Pointer {
			return -1
		}
		return 1
	})
	return faults
}
