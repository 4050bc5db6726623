import icon from "../icon.svg";

export function Brand() {
  return <><img src={icon} alt="" width={20} height={20} /> <span>modserve</span></>;
}
