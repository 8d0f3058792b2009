package main

import (
	_ "embed"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

//go:embed purchase.yaml
var purchase string

// The bank is closed at first. Then the customer pays, changes her mind, and gets her money back.
func TestACancelledPurchaseIsPaidBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // ten minutes take a second
		e := sagalogtest.Start(t)
		e.Apply(purchase)
		calls, paid := 0, make(chan int, 2)
		e.Serve(bank(func(_ string, amount int) error {
			if calls++; calls == 1 {
				return errors.New("the bank is closed")
			}
			paid <- amount
			return nil
		}))
		c := e.Client()
		_, err := c.Submit(t.Context(), client.Submission{ID: "p-1", Workflow: "purchase", Input: []byte(`{"price": 12}`)})
		if err != nil || <-paid != 12 {
			t.Fatal("the customer has not paid", err)
		}
		if _, err := c.Cancel(t.Context(), "p-1", client.Request{Reason: "she changed her mind"}); err != nil {
			t.Fatal(err)
		}
		task, err := c.Wait(t.Context(), "p-1")
		if err != nil || task.State != client.StateUndone || <-paid != -12 {
			t.Fatal("the customer has not got her money back", task, err)
		}
	})
}
