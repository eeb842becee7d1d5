package podwright

// Reason explains a state: Reason is one CamelCase word, Message a text for people.
type Reason struct {
	Reason, Message string
}
