package gc

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Reason is the reason for removing an image, named as in the kubelet's metric.
type Reason string

const (
	// ReasonAge: the image was not used for longer than Policy.MaxAge.
	ReasonAge Reason = "age"
	// ReasonSpace: the disk is full.
	ReasonSpace Reason = "space"
)

// Image is the part of an image that matters for garbage collection.
type Image struct {
	// ID is the image's ID in the runtime.
	ID string
	// Size is the number of bytes that its removal frees.
	Size   uint64
	Pinned bool
	// InUse is true if a container or a volume uses the image.
	InUse bool
	// FirstDetected is the time of its first detection. Zero: present at the start.
	FirstDetected time.Time
	// LastUsed is the time of its last detection in use. Zero: not since the start.
	LastUsed time.Time
}

// Disk is the filesystem of the images, in bytes.
type Disk struct {
	Capacity, Available uint64
}

// UsedPercent returns the usage as a whole number, for comparison with thresholds. The available
// share is rounded down. It is zero without capacity.
func (d Disk) UsedPercent() int {
	if d.Capacity == 0 {
		return 0
	}
	high, low := bits.Mul64(min(d.Available, d.Capacity), 100)
	free, _ := bits.Div64(high, low, d.Capacity)
	return 100 - int(free)
}

// Input is the input of Compute.
type Input struct {
	// Now is the time of the decision, Started the time of the Manager's start.
	Now, Started time.Time
	// Images are all images on the node.
	Images []Image
	// Disk is the images' filesystem.
	Disk   Disk
	Policy Policy
}

// Plan is the result of Compute.
type Plan struct {
	// Old are to be removed for their age.
	Old []Image
	// Unused may be removed for their space, in this order, until Free bytes are freed. It
	// does not contain Old. The bytes of Old count for Free.
	Unused []Image
	// Free is the number of bytes to free; zero unless the disk is full.
	Free uint64
}

// Compute decides which images to remove.
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

// everything is a limit of bytes that is never reached.
const everything = math.MaxUint64

// oldest sorts images by their last use, then by first detection, zero times first, and then by
// ID.
func oldest(images []Image) []Image {
	return slices.SortedFunc(slices.Values(images), func(a, b Image) int {
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), a.FirstDetected.Compare(b.FirstDetected), cmp.Compare(a.ID, b.ID))
	})
}

// tooOld reports whether an image was not used for longer than allowed. Its time before the start
// is unknown, so it counts as used at the start.
func (in *Input) tooOld(image Image) bool {
	idle := in.Started
	for _, t := range []time.Time{image.LastUsed, image.FirstDetected} {
		if t.After(idle) {
			idle = t
		}
	}
	return in.Policy.MaxAge > 0 && in.Now.Sub(idle) > in.Policy.MaxAge
}

// toFree returns the number of bytes to free to reach the low threshold, if the usage has reached
// the high one.
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

// sizeText returns a size in the largest binary unit, up to TiB, that it reaches.
func sizeText(bytes uint64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	size, unit := float64(bytes)/(1<<10), 0
	for size >= 1<<10 && unit < len(units)-1 {
		size, unit = size/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}
