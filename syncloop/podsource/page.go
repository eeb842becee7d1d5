package podsource

import (
	"crypto/sha256"
	"errors"

	v1 "k8s.io/api/core/v1"
)

// page turns the replies of a server into sets of pods. It has no clock and does
// no I/O.
type page struct {
	decode func(body []byte) ([]*v1.Pod, error)
	// applied is the digest of the reply whose pods are in force, nil without one.
	// A reply that was refused is never remembered: it would be taken for one that
	// is in force when it comes again.
	applied *[sha256.Size]byte
	// pods is how many pods are in force.
	pods int
}

// errEmptyReply is the error of a good reply without content.
var errEmptyReply = errors.New("the answer is empty: there are no pods")

// answer is what follows from a reply.
type answer struct {
	// changed tells that pods is the new set; without it the one before stays.
	changed bool
	pods    []*v1.Pod
	// problem says what is wrong with the reply, nil if nothing is.
	problem error
}

// take takes the body of a good reply in. An empty one means that there are no
// pods, and is an error all the same: nobody says "no pods" like that on purpose.
func (p *page) take(body []byte) answer {
	if len(body) == 0 {
		p.applied, p.pods = nil, 0
		return answer{changed: true, problem: errEmptyReply}
	}
	digest := sha256.Sum256(body)
	if p.applied != nil && *p.applied == digest {
		return answer{}
	}
	pods, err := p.decode(body)
	if err != nil {
		return answer{problem: err}
	}
	p.applied, p.pods = &digest, len(pods)
	return answer{changed: true, pods: pods}
}
