package dronedelivery

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// kind holds the differences between the services.
type kind struct {
	name string
	// template is the path of a resource; each {name} in it is an identifier.
	template string
	undoable bool
	// answer builds the answer to a PUT, or refuses it. It is called once for each key, and the ledger keeps the result.
	answer func(c call, now time.Time) (any, *problem)
}

func kindOf(service string) kind {
	switch service {
	case Account:
		return kind{Account, "/api/accounts/{owner}/checks/{id}", false, answerAccount}
	case Package:
		return kind{Package, "/api/packages/{id}", true, answerPackage}
	case Transport:
		return kind{Transport, "/api/transports/{id}", true, answerTransport}
	case Drone:
		return kind{Drone, "/api/drones/{id}", true, answerDrone}
	case Delivery:
		return kind{Delivery, "/api/deliveries/{id}", false, answerDelivery}
	case Payment:
		return kind{Payment, "/api/payments/{order}", true, answerPayment}
	}
	panic("dronedelivery: no service " + service)
}

// match returns the identifiers in an encoded path of this kind.
func (k kind) match(escaped string) ([]string, bool) {
	got, ok := segments(escaped)
	want, _ := segments(k.template)
	if !ok || len(got) != len(want) {
		return nil, false
	}
	var ids []string
	for i, w := range want {
		if strings.HasPrefix(w, "{") {
			ids = append(ids, got[i])
		} else if got[i] != w {
			return nil, false
		}
	}
	return ids, true
}

// allow is the value of the header Allow.
func (k kind) allow() string {
	if k.undoable {
		return "GET, PUT, DELETE"
	}
	return "GET, PUT"
}

func answerAccount(c call, _ time.Time) (any, *problem) {
	if strings.HasPrefix(c.ids[0], "suspended") {
		return nil, refusal(http.StatusForbidden, "account %s is suspended", c.ids[0])
	}
	return struct {
		Owner  string `json:"owner"`
		Status string `json:"status"`
		Check  string `json:"check"`
	}{c.ids[0], "good", c.ids[1]}, nil
}

// sizeMax keeps answers, and so the ledger's lines, short.
const sizeMax = 64

// readBody decodes the body of a call, if it has one, into a thing of the given name.
func readBody(c call, thing string, into any) *problem {
	if len(c.body) == 0 {
		return nil
	}
	err := json.Unmarshal(c.body, into)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return refusal(http.StatusUnprocessableEntity, "the body is not a %s: %v", thing, err)
	}
	if err != nil {
		return refusal(http.StatusBadRequest, "the body is not JSON: %v", err)
	}
	return nil
}

func answerPackage(c call, _ time.Time) (any, *problem) {
	var in struct {
		Size   string  `json:"size"`
		Weight float64 `json:"weight"`
	}
	if wrong := readBody(c, "package", &in); wrong != nil {
		return nil, wrong
	}
	if len(in.Size) > sizeMax {
		return nil, refusal(http.StatusUnprocessableEntity, "size has more than %d bytes", sizeMax)
	}
	if in.Weight < 0 {
		return nil, refusal(http.StatusUnprocessableEntity, "weight %v is negative", in.Weight)
	}
	d := digestOf(Package, c.ids[0])
	return struct {
		ID     string  `json:"id"`
		Tag    string  `json:"tag"`
		Size   string  `json:"size,omitempty"`
		Weight float64 `json:"weight,omitempty"`
	}{c.ids[0], "PKG-" + strings.ToUpper(hex.EncodeToString(d[:4])), in.Size, in.Weight}, nil
}

func answerTransport(c call, _ time.Time) (any, *problem) {
	carriers := []string{"Northwind", "Contoso Freight", "Fabrikam Couriers"}
	return struct {
		ID      string `json:"id"`
		Carrier string `json:"carrier"`
		Status  string `json:"status"`
	}{c.ids[0], carriers[pick(Transport, c.ids[0], len(carriers))], "booked"}, nil
}

func answerDrone(c call, now time.Time) (any, *problem) {
	const drones, flight = 40, 25 * time.Minute
	return struct {
		Drone    string `json:"drone"`
		Delivery string `json:"delivery"`
		ETA      string `json:"eta"`
	}{fmt.Sprintf("drone-%d", 1+pick(Drone, c.ids[0], drones)), c.ids[0], stamp(now.Add(flight))}, nil
}

func answerDelivery(c call, _ time.Time) (any, *problem) {
	return struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}{c.ids[0], "scheduled"}, nil
}

func answerPayment(c call, _ time.Time) (any, *problem) {
	var in struct {
		Customer string `json:"customer"`
		Cents    int64  `json:"cents"`
	}
	if wrong := readBody(c, "payment", &in); wrong != nil {
		return nil, wrong
	}
	if in.Cents <= 0 {
		return nil, refusal(http.StatusUnprocessableEntity, "an amount of %d cents cannot be paid", in.Cents)
	}
	d := digestOf(Payment, c.ids[0], c.key)
	return struct {
		Order   string `json:"order"`
		Receipt string `json:"receipt"`
		Cents   int64  `json:"cents"`
	}{c.ids[0], "PAY-" + strings.ToUpper(hex.EncodeToString(d[:4])), in.Cents}, nil
}

// pick chooses one of n for an identifier, always the same for that identifier.
func pick(service, id string, n int) int {
	d := digestOf(service, id)
	return (int(d[0])<<8 | int(d[1])) % n
}
