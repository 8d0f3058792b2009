package dronedelivery

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Task is a submission object for the drone-delivery workflow.
type Task struct {
	ID       string `json:"id"`
	Workflow string `json:"workflow"`
	Input    Input  `json:"input"`
}

// Input is the input that delivery.schema.json describes.
type Input struct {
	OwnerID              string      `json:"ownerId"`
	PackageInfo          PackageInfo `json:"packageInfo"`
	Pickup               Place       `json:"pickup"`
	Dropoff              Place       `json:"dropoff"`
	ConfirmationRequired string      `json:"confirmationRequired,omitempty"`
	Expedited            bool        `json:"expedited,omitempty"`
}

// PackageInfo describes the package. Weight is in kilograms.
type PackageInfo struct {
	Size   string  `json:"size"`
	Weight float64 `json:"weight"`
}

// Place is where a package is picked up or delivered.
type Place struct {
	Region  string `json:"region"`
	Address string `json:"address,omitempty"`
}

// Submission returns the i-th delivery of a seed. The same i and seed give the same content, so that sending it again
// is a duplicate and not a conflict. About half of the deliveries cross regions and so need the transport service.
func Submission(i int, seed uint64) Task {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	regions := []string{"north", "east", "south", "west"}
	from := r.IntN(len(regions))
	to := from
	if r.IntN(2) == 0 {
		to = (from + 1 + r.IntN(len(regions)-1)) % len(regions)
	}
	sizes := []string{"small", "medium", "large"}
	size := r.IntN(len(sizes))
	return Task{
		ID:       fmt.Sprintf("delivery-%d", i),
		Workflow: Name,
		Input: Input{
			OwnerID: fmt.Sprintf("owner-%d", 1+r.IntN(5000)),
			PackageInfo: PackageInfo{
				Size: sizes[size],
				// 0.1 to 3, 6 or 9 kg, in steps that JSON shows with one decimal.
				Weight: math.Round((0.1+r.Float64()*(3*float64(size+1)-0.1))*10) / 10,
			},
			Pickup:               place(r, regions[from]),
			Dropoff:              place(r, regions[to]),
			ConfirmationRequired: []string{"none", "picture", "signature"}[r.IntN(3)],
			Expedited:            r.IntN(10) == 0,
		},
	}
}

func place(r *rand.Rand, region string) Place {
	streets := []string{"Harbour Street", "Mill Lane", "Station Road", "Orchard Way", "Tower Hill", "Canal Walk"}
	return Place{Region: region, Address: fmt.Sprintf("%d %s", 1+r.IntN(240), streets[r.IntN(len(streets))])}
}
