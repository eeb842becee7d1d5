package probe

// Results are the results of a pod's probes, in no order; see Manager.Results. A missing result
// is unknown. As an input of other packages, nil means that the pod is not probed. A Manager
// never returns nil.
type Results []Stored

// Of returns the result of a probe for one instance of a container, "<runtime>://<id>" as in the
// pod's status: Success, Failure, or Unknown. Results of other instances, such as the previous
// one, do not count.
func (r Results) Of(containerID string, t Type) Verdict {
	for i := range r {
		if r[i].Type == t && r[i].ContainerID == containerID && containerID != "" {
			return r[i].Result
		}
	}
	return Unknown
}
