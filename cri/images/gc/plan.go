package gc

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Reason says why an image is removed, with the names of the kubelet's metric.
type Reason string

const (
	// ReasonAge: it has not been used for longer than Policy.MaxAge.
	ReasonAge Reason = "age"
	// ReasonSpace: the disk is full.
	ReasonSpace Reason = "space"
)

// Image is an image on the node, as far as it matters here.
type Image struct {
	// ID is its ID in the runtime.
	ID string
	// Size is how many bytes its removal frees.
	Size uint64
	// Pinned images are kept.
	Pinned bool
	// InUse says that a container or a volume uses it.
	InUse bool
	// FirstDetected is when it was first seen; zero: it was there at the start.
	FirstDetected time.Time
	// LastUsed is when it was last seen in use; zero: never since the start.
	LastUsed time.Time
}

// Disk is the file system of the images, in bytes.
type Disk struct {
	Capacity, Available uint64
}

// UsedPercent is how full it is, as the whole number that thresholds are compared
// with: what is available is rounded down. It is zero without capacity.
func (d Disk) UsedPercent() int {
	if d.Capacity == 0 {
		return 0
	}
	high, low := bits.Mul64(min(d.Available, d.Capacity), 100)
	free, _ := bits.Div64(high, low, d.Capacity)
	return 100 - int(free)
}

// Input is what a decision depends on.
type Input struct {
	// Now is the moment of the decision, Started that of the Manager's start.
	Now, Started time.Time
	// Images are all images on the node.
	Images []Image
	// Disk is their file system.
	Disk Disk
	// Policy says what to do.
	Policy Policy
}

// Plan is a decision.
type Plan struct {
	// Old are to be removed for their age.
	Old []Image
	// Unused may be removed for their space, in this order, until Free bytes are
	// freed. It contains none of Old, whose bytes count for Free.
	Unused []Image
	// Free is how many bytes must be freed; zero when the disk is not full.
	Free uint64
}

// Compute decides what to remove.
func Compute(in Input) Plan {
	var plan Plan
	for _, image := range oldest(in.Images) {
		switch {
		case image.InUse || image.Pinned:
		case in.tooOld(image):
			plan.Old = append(plan.Old, image)
		case in.Now.Sub(image.FirstDetected) >= in.Policy.MinAge:
			plan.Unused = append(plan.Unused, image)
		}
	}
	plan.Free = in.toFree()
	return plan
}

// everything is a disk of which nothing is enough.
const everything = math.MaxUint64

// oldest sorts images by their last use, then by the time since they are known; those
// of which neither is known come first. IDs make the order complete.
func oldest(images []Image) []Image {
	return slices.SortedFunc(slices.Values(images), func(a, b Image) int {
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), a.FirstDetected.Compare(b.FirstDetected), cmp.Compare(a.ID, b.ID))
	})
}

// tooOld tells whether an image has not been used for longer than allowed. Before the
// start nobody looked: it counts as used then.
func (in *Input) tooOld(image Image) bool {
	idle := in.Started
	for _, t := range []time.Time{image.LastUsed, image.FirstDetected} {
		if t.After(idle) {
			idle = t
		}
	}
	return in.Policy.MaxAge > 0 && in.Now.Sub(idle) > in.Policy.MaxAge
}

// toFree is how many bytes lie between the disk and the low threshold, once it has
// reached the high one.
func (in *Input) toFree() uint64 {
	if in.Disk.Capacity == 0 || in.Policy.HighPercent >= 100 || in.Disk.UsedPercent() < in.Policy.HighPercent {
		return 0
	}
	high, low := bits.Mul64(in.Disk.Capacity, uint64(100-in.Policy.LowPercent))
	want, _ := bits.Div64(high, low, 100)
	if want <= in.Disk.Available {
		return 0
	}
	return want - in.Disk.Available
}
