// A service that pays through the gate, with the client that a public generator makes of the gate's contract.
// `tests/tools/clients.py --long` generates the client, compiles this and runs it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"example.org/sluice/payments"
)

var (
	gate = newClient()
	as   = context.WithValue(context.Background(), payments.ContextAccessToken, os.Getenv("TOKEN"))
)

func newClient() *payments.APIClient {
	settings := payments.NewConfiguration()
	settings.Servers = payments.ServerConfigurations{{URL: os.Getenv("GATE")}}
	return payments.NewAPIClient(settings)
}

func swap(requestID, amount string) payments.SwapCreate {
	source, destination := payments.NewSwapCreateSource(), payments.NewSwapCreateDestination()
	source.SetChain("POLYGON")
	source.SetCurrency("usdt")
	source.SetAmount(amount)
	destination.SetChain("POLYGON")
	destination.SetCurrency("usdc")
	destination.SetWalletAddress("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	return *payments.NewSwapCreate(*destination, requestID, *source)
}

// pay returns the record of an executed swap, the answer, and the gate's code where it has one.
//
// The generator gives a call one type of success, that of 200: a held payment (202) fits no part of it and comes as an
// error, so that no program takes it for an executed one.
func pay(requestID, amount string) (*payments.SwapRecord, *http.Response, string) {
	paid, response, err := gate.SwapsAPI.CreateSwap(as).SwapCreate(swap(requestID, amount)).Execute()
	if err == nil {
		return paid.SwapRecord, response, ""
	}
	failed, isAnswered := err.(*payments.GenericOpenAPIError)
	if !isAnswered {
		panic(err)
	}
	model, isError := failed.Model().(payments.Error)
	switch {
	case !isError:
		return nil, response, ""
	case model.ErrorDocument != nil:
		return nil, response, model.ErrorDocument.Error.Code
	}
	return nil, response, model.ErrorA.Error
}

func expect(what string, isTrue bool, found ...any) {
	if !isTrue {
		fmt.Println(what, found)
		os.Exit(1)
	}
}

func main() {
	for _, replayed := range []string{"", "true"} {
		record, response, code := pay("go-1", "25.50")
		expect("executed", response.Header.Get("Sluice-Outcome") == "executed", response, code)
		expect("replayed", response.Header.Get("Sluice-Replayed") == replayed, response)
		expect("a record", record != nil && *record.TransferDetails.RequestId == "go-1", record)
	}

	record, response, _ := pay("go-2", "2000")
	expect("held, not paid", response.StatusCode == 202 && record == nil, response, record)
	location := response.Header.Get("Location")
	id := location[strings.LastIndex(location, "/")+1:]
	shown, _, err := gate.HoldsAPI.ShowHold(as, id).Execute()
	expect("the hold is pending", err == nil && shown.Hold.State == payments.HOLDSTATE_PENDING, shown, err)
	cancelled, _, err := gate.HoldsAPI.CancelHold(as, id).Execute()
	expect("the hold is cancelled", err == nil && cancelled.Hold.State == payments.HOLDSTATE_CANCELLED, cancelled, err)
	_, _, code := pay("go-2", "2000")
	expect("cancelled for good", code == "APPROVAL_CANCELLED", code)

	_, response, code = pay("go-3", "6000")
	expect("a rule refuses", code == "POLICY_DENIED" && response.StatusCode == 403, code, response)
	help, _, err := gate.GateAPI.ExplainCode(context.Background(), code).Execute()
	expect("help on the code", err == nil && help.Code == code && len(help.Answers) > 0, help, err)

	fault := strings.NewReader(`{"operation": "createSwap", "kind": "hang", "times": 1}`)
	_, err = http.Post(os.Getenv("SIMULATOR")+"/simulator/faults", "application/json", fault)
	expect("the simulator fails the next swap", err == nil, err)
	for _, status := range []int{504, 409} {
		_, response, code = pay("go-4", "25.50")
		expect("in doubt", response.StatusCode == status && code == "OUTCOME_UNKNOWN", response, code)
	}

	users, _, err := gate.UsersAPI.ListUsers(as).Limit("10").Execute()
	expect("a read", err == nil && users.Users != nil, users, err)
}
