package probe

// Results are the results of a pod's probes, in no order; see Manager.Results. A
// result that is missing is not known. For whoever asks for Results, nil means that
// nobody probes; what a Manager returns is never nil.
type Results []Stored

// Of returns what a probe has found of one instance of a container, "<runtime>://<id>"
// as in the pod's status: Success, Failure, or Unknown. What was found of another
// instance, such as the one before, does not count.
func (r Results) Of(containerID string, t Type) Verdict {
	for i := range r {
		if r[i].Type == t && r[i].ContainerID == containerID && containerID != "" {
			return r[i].Result
		}
	}
	return Unknown
}
