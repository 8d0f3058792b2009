// Package steps is the workload of the comparison, written once: an order of five steps, each a call of the same HTTP service. The program
// of each engine says how a call becomes a durable step.
//
// The bodies are those of sagalog/workflows/five.yaml, which is the same order for Sagalog.
package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Names are the steps, in their order.
var Names = []string{"reserve", "pay", "pack", "ship", "notify"}

// Order is the input of a task.
type Order struct {
	ID       string  `json:"id"`
	Customer string  `json:"customer"`
	Amount   float64 `json:"amount"`
}

// Call is a request of one step.
type Call struct {
	Step string `json:"-"`
	Task string `json:"-"`

	Order    string  `json:"order,omitempty"`
	Customer string  `json:"customer,omitempty"`
	Amount   float64 `json:"amount,omitempty"`
	Hold     string  `json:"hold,omitempty"`
	Receipt  string  `json:"receipt,omitempty"`
	Parcel   string  `json:"parcel,omitempty"`
	Tracking string  `json:"tracking,omitempty"`
}

// Made is the service's answer.
type Made struct {
	ID string `json:"id"`
}

// Five makes the calls of an order one after another. Each needs the answer to the one before it. The function do makes one call, as a
// step that the engine records.
func Five(o Order, do func(Call) (Made, error)) (Made, error) {
	var made Made
	for _, step := range Names {
		c := Call{Step: step, Task: o.ID, Order: o.ID}
		switch step {
		case "reserve":
			c.Customer = o.Customer
		case "pay":
			c.Amount, c.Hold = o.Amount, made.ID
		case "pack":
			c.Receipt = made.ID
		case "ship":
			c.Parcel = made.ID
		case "notify":
			c.Order, c.Customer, c.Tracking = "", o.Customer, made.ID
		}
		var err error
		if made, err = do(c); err != nil {
			return Made{}, fmt.Errorf("step %s: %w", step, err)
		}
	}
	return made, nil
}

// Last is the ID that the last step of a task answers.
func Last(task string) string { return Names[len(Names)-1] + "-" + task }

// Service is the client of the HTTP service.
type Service struct {
	base   string
	client *http.Client
}

// NewService returns a client of the service at SERVICE_URL, with enough idle connections that none is opened in the middle of a run.
func NewService() *Service {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 2048
	return &Service{os.Getenv("SERVICE_URL"), &http.Client{Transport: t, Timeout: 30 * time.Second}}
}

// Do makes the call. An answer other than 200 is an error.
func (s *Service) Do(ctx context.Context, c Call) (Made, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return Made{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.base+"/"+c.Step+"/"+c.Task, bytes.NewReader(body))
	if err != nil {
		return Made{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return Made{}, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return Made{}, err
	}
	if res.StatusCode != http.StatusOK {
		return Made{}, fmt.Errorf("PUT %s: %s: %s", req.URL.Path, res.Status, answer)
	}
	var made Made
	return made, json.Unmarshal(answer, &made)
}
