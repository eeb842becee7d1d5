package podsource

import (
	"crypto/sha256"
	"errors"

	v1 "k8s.io/api/core/v1"
)

// page converts the replies of a server to sets of pods. It is pure.
type page struct {
	decode func(body []byte) ([]*v1.Pod, error)
	// applied is the digest of the reply whose pods are in force, nil without one. Refused replies
	// are not stored, because a repetition would look like a reply in force.
	applied *[sha256.Size]byte
	// pods is the number of pods in force.
	pods int
}

var errEmptyReply = errors.New("the reply is empty: the source has no pods")

// apply applies the body of a good reply and returns the set if it has changed. An empty body means
// that there are no pods. It is an error too, because it is rarely intended.
func (p *page) apply(body []byte) (pods []*v1.Pod, changed bool, err error) {
	if len(body) == 0 {
		p.applied, p.pods = nil, 0
		return nil, true, errEmptyReply
	}
	digest := sha256.Sum256(body)
	if p.applied != nil && *p.applied == digest {
		return nil, false, nil
	}
	if pods, err = p.decode(body); err != nil {
		return nil, false, err
	}
	p.applied, p.pods = &digest, len(pods)
	return pods, true, nil
}
